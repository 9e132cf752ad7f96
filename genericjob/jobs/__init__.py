"""GenericJob: pure decisions (one policy per file), and the controller that acts on them."""
