package config

import _ "embed"

//go:embed example.yaml
var example string

// Example is a file with every setting and a word about each; Parse accepts it.
func Example() string { return example }
