"""What tests share: clusters, a kubelet stand-in, servers and proxies that misbehave on purpose."""
