// Keys and certificates of one control plane, so that openssl need not exist.
//
//	certs plane  --dir DIR                                       a CA and everything the control plane's own programs present
//	certs client --dir DIR --out PREFIX --cn CN [--org O]... --valid 1h   one more client certificate from that CA
//
// A negative --valid makes a certificate that has already expired: tests need to see it refused.
// Every certificate is signed by the one CA in DIR, which is also the CA that the API server trusts for clients.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	lifetime = 365 * 24 * time.Hour
	// Certificates begin a little in the past: a clock that was just set back must not make them "not yet valid".
	leeway = time.Hour
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "certs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("which command: plane or client?")
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	dir := flags.String("dir", "", "directory of the CA")
	switch args[0] {
	case "plane":
		serviceIP := flags.String("service-ip", "10.0.0.1", "address of the service `kubernetes`: the first of the service range")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return plane(*dir, *serviceIP)
	case "client":
		var orgs list
		out := flags.String("out", "", "path of the files to write, without .crt and .key")
		cn := flags.String("cn", "", "common name: the user")
		valid := flags.Duration("valid", lifetime, "how long from now; negative: expired that long ago")
		flags.Var(&orgs, "org", "organisation: a group of the user (may be repeated)")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		ca, err := load(*dir)
		if err != nil {
			return err
		}
		return ca.issue(*out, client(*cn, orgs, *valid))
	}
	return fmt.Errorf("unknown command %q: plane or client", args[0])
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// plane writes the CA, the serving certificate, the client certificates of the programs and the service-account key pair.
func plane(dir, serviceIP string) error {
	ip := net.ParseIP(serviceIP)
	if ip == nil {
		return fmt.Errorf("%q is not an address", serviceIP)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return err
	}
	for name, template := range map[string]*x509.Certificate{
		"serving":                 serving(ip),
		"admin":                   client("admin", []string{"system:masters"}, lifetime),
		"kube-controller-manager": client("system:kube-controller-manager", nil, lifetime),
		"kube-scheduler":          client("system:kube-scheduler", nil, lifetime),
	} {
		if err := ca.issue(filepath.Join(dir, name), template); err != nil {
			return err
		}
	}
	return serviceAccountKeys(dir)
}

func serving(serviceIP net.IP) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:   time.Now().Add(-leeway),
		NotAfter:    time.Now().Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, serviceIP},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
	}
}

func client(cn string, orgs []string, valid time.Duration) *x509.Certificate {
	now := time.Now()
	end := now.Add(valid)
	begin := now.Add(min(valid, 0) - leeway) // an expired certificate was valid once
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: cn, Organization: orgs},
		NotBefore:   begin,
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(dir string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "genericjob test cluster"},
		NotBefore:             time.Now().Add(-leeway),
		NotAfter:              time.Now().Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	self := &authority{certificate: template, key: key}
	if err := self.sign(filepath.Join(dir, "ca"), template, key); err != nil {
		return nil, err
	}
	// Read back what was written: the subject key id that leaves refer to exists only in the finished certificate.
	return load(dir)
}

func load(dir string) (*authority, error) {
	pair := [2][]byte{}
	for i, name := range []string{"ca.crt", "ca.key"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("%s is not PEM", name)
		}
		pair[i] = block.Bytes
	}
	certificate, err := x509.ParseCertificate(pair[0])
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(pair[1])
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key}, nil
}

// issue makes a key and writes it with its certificate to path.key and path.crt.
func (a *authority) issue(path string, template *x509.Certificate) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	return a.sign(path, template, key)
}

func (a *authority) sign(path string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if err := writeKey(path+".key", key); err != nil {
		return err
	}
	return writePEM(path+".crt", "CERTIFICATE", der)
}

func serviceAccountKeys(dir string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, "sa.key"), key); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", public)
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
