package config

import _ "embed"

//go:embed example.yaml
var example string

// Example returns the commented example file, which holds every key with its
// default where it has one.
func Example() string { return example }
