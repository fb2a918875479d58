// Package agentv1 is the protocol of the stream between replicas and host agents, generated
// from agent.proto. What the frames mean is said there; internal/link speaks it.
package agentv1

//go:generate go -C ../../../../tools run ./protogen -root ../proto plimsoll/agent/v1/agent.proto
