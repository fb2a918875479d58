package config

import _ "embed"

//go:embed example.yaml
var example string

//go:embed nohosts.yaml
var noHosts string

//go:embed agent.yaml
var agent string

// AgentExample is a whole file for an agent in a process of its own.
func AgentExample() string { return agent }

// Example is a file with every setting and a word about each; Parse accepts it.
func Example() string { return example }

// NoHostsExample is a whole file for two services on one account, without a host of ours.
func NoHostsExample() string { return noHosts }
