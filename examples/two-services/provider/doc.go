// Package main is a fake cloud provider, for the two services beside it: it takes orders for containers
// as a provider's API does, and runs none. A container of it is a name that is running until its time is over.
//
// What is real is the gate in front: a container is booted only by a ticket that was verified here, with
// the audience's key, and redeemed at a replica, once. Whoever comes without one is refused, whatever else
// they know. And it has the account's hard limit, which ours should never let anybody run into:
// GET /account counts what it booted, what it refused and why, and how often the limit was met.
//
// It uses client and client/substrate, and nothing else of Plimsoll. One lock guards all it knows.
package main
