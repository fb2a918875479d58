// Package api is the contract: the one table of codes, the refusal that crosses every
// boundary, and the wire types generated from openapi.yaml. It decides nothing.
package api

// Code is the stable, machine-readable name of an outcome that is not a yes.
type Code string

// The codes. The list is append-only: a code once sent keeps its meaning.
const (
	WaitingCapacity    Code = "waiting_capacity"
	NoCapacity         Code = "no_capacity"
	PoolFull           Code = "pool_full"
	QueueFull          Code = "queue_full"
	HostStartsFull     Code = "host_starts_saturated"
	HostPressure       Code = "host_pressure"
	HostDraining       Code = "host_draining"
	HostSilent         Code = "host_silent"
	ReservationLapsed  Code = "reservation_lapsed"
	Releasing          Code = "releasing"
	Unavailable        Code = "unavailable"
	NoHealthyAgents    Code = "no_healthy_agents"
	QueueTimeout       Code = "queue_timeout"
	TenantOverQuota    Code = "tenant_over_quota"
	InvalidRequest     Code = "invalid_request"
	Unauthenticated    Code = "unauthenticated"
	Forbidden          Code = "forbidden"
	NotFound           Code = "not_found"
	UnknownClass       Code = "unknown_class"
	KeyConflict        Code = "key_conflict"
	Infeasible         Code = "infeasible"
	TooLarge           Code = "too_large"
	TicketRejected     Code = "ticket_rejected"
	MethodNotAllowed   Code = "method_not_allowed"
	BodyTooLarge       Code = "body_too_large"
	GenerationConflict Code = "generation_conflict"
	InvalidConfig      Code = "invalid_config"
	Internal           Code = "internal"
	OverCeiling        Code = "over_ceiling"
	HostStateConflict  Code = "host_state"
	JoinRejected       Code = "join_rejected"
	HostIsBuried       Code = "host_buried"
	ModeOfAll          Code = "mode_of_all"
)

// Scope says whose no it is.
type Scope string

// The scopes, from the narrowest to the widest.
const (
	ScopeRequest Scope = "request"
	ScopeHost    Scope = "host"
	ScopePool    Scope = "pool"
	ScopeTenant  Scope = "tenant"
	ScopeFleet   Scope = "fleet"
)

// Kind is what a caller should make of an outcome.
type Kind uint8

const (
	// NotNow is a tempo: wait and ask again. Never write it to a status column.
	NotNow Kind = iota
	// NotAllowed is a rule that this caller runs into.
	NotAllowed
	// Never is a fault in the request, or something that will not change by waiting.
	Never
)

// Meaning is one row of the table of codes.
type Meaning struct {
	Code   Code
	Status int    // HTTP
	Kind   Kind   // what the caller should make of it
	Scope  Scope  // whose no it is, unless the refusal says otherwise
	Page   bool   // a person should be woken
	Title  string // one line for people
	Remedy string // what to do about it
}

// Retryable says whether the same request may succeed later without any change to it.
func (m Meaning) Retryable() bool { return m.Kind == NotNow }

var table = [...]Meaning{
	{WaitingCapacity, 202, NotNow, ScopePool, false, "waiting for capacity", "attempt again with the same key; the place in the queue is kept"},
	{NoCapacity, 503, NotNow, ScopeFleet, false, "no host has room at this moment", "ask again after Retry-After, or use queue mode"},
	{PoolFull, 503, NotNow, ScopePool, false, "the pool is at its cap", "ask again after Retry-After, or use queue mode"},
	{QueueFull, 503, NotNow, ScopePool, false, "the pool's queue is full", "ask again after Retry-After"},
	{HostStartsFull, 503, NotNow, ScopeHost, false, "too many sandboxes are starting", "ask again after Retry-After"},
	{HostPressure, 503, NotNow, ScopeHost, false, "the host's intake is shut by memory pressure", "ask again after Retry-After; the valve opens by itself"},
	{HostDraining, 503, NotNow, ScopeHost, false, "the host is draining", "attempt again with the same key; it is placed elsewhere"},
	{HostSilent, 503, NotNow, ScopeHost, false, "the host that this rests on is silent", "ask again after Retry-After"},
	{ReservationLapsed, 503, NotNow, ScopeHost, false, "the reservation lapsed before the boot", "attempt again with the same key"},
	{Releasing, 503, NotNow, ScopeRequest, false, "the key's former admission is still being released", "ask again after Retry-After"},
	{Unavailable, 503, NotNow, ScopeFleet, false, "the store, or a host that was asked, does not answer", "ask again after Retry-After; see the server's log"},
	{NoHealthyAgents, 503, NotNow, ScopeFleet, true, "no host agent is heard", "start or repair the host agents"},
	{QueueTimeout, 503, NotNow, ScopePool, false, "waited as long as it was willing to", "post the key again for a new place"},
	{TenantOverQuota, 403, NotAllowed, ScopeTenant, false, "the tenant is at its quota", "release something of this tenant, or raise its quota"},
	{InvalidRequest, 400, Never, ScopeRequest, false, "the request is malformed", "correct the field that is named"},
	{Unauthenticated, 401, NotAllowed, ScopeRequest, false, "no valid token", "send Authorization: Bearer with a token of a configured consumer"},
	{Forbidden, 403, NotAllowed, ScopeRequest, false, "the token's role does not allow this", "use a token with the role that is named"},
	{NotFound, 404, Never, ScopeRequest, false, "there is no such thing", "check the name"},
	{UnknownClass, 404, Never, ScopeRequest, false, "there is no such class", "use a class of the configuration, or add it with plimsoll config apply"},
	{KeyConflict, 422, Never, ScopeRequest, false, "the key is in use with other contents", "use another key, or send the same contents"},
	{Infeasible, 422, Never, ScopeFleet, false, "no registered host could ever hold this", "ask for less, or add a larger host"},
	{TooLarge, 422, Never, ScopeRequest, false, "outside the bounds of its class", "ask within the class's bounds"},
	{TicketRejected, 403, Never, ScopeRequest, false, "the ticket does not admit this boot", "get a ticket from POST /v1/admissions"},
	{MethodNotAllowed, 405, Never, ScopeRequest, false, "the resource does not know this method", "see /openapi.yaml"},
	{BodyTooLarge, 413, Never, ScopeRequest, false, "the body is too large", "send less than the limit that is named"},
	{GenerationConflict, 409, Never, ScopeRequest, false, "the configuration changed meanwhile", "look at plimsoll config diff, then apply again"},
	{InvalidConfig, 422, Never, ScopeRequest, false, "the configuration is not valid", "correct the lines that are named; the old one stays in force"},
	{Internal, 500, Never, ScopeFleet, true, "an internal error", "see the server's log by the decision id"},
	{OverCeiling, 409, Never, ScopeFleet, false, "the caps would sum to more than the ceiling", "lower the cap of another pool first, ask for less, or raise the ceiling"},
	{HostStateConflict, 409, Never, ScopeHost, false, "the host's state does not allow this", "do what is named first"},
	{JoinRejected, 403, NotAllowed, ScopeRequest, false, "the join token does not admit this host", "make one with plimsoll host token create"},
	{HostIsBuried, 403, NotAllowed, ScopeHost, false, "the host was buried, and its credential is void", "join anew, with a token of plimsoll host token create"},
	{ModeOfAll, 409, Never, ScopeRequest, false, "all is in shadow by one order", "take that back with plimsoll mode enforce --all"},
}

// Table returns every row, in the order in which the codes were added.
func Table() []Meaning { return append([]Meaning(nil), table[:]...) }

// Meaning looks the code up; an unknown code means internal.
func (c Code) Meaning() Meaning {
	for i := range table {
		if table[i].Code == c {
			return table[i]
		}
	}
	return Internal.Meaning()
}
