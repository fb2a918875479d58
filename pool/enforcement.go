package pool

import (
	"maps"
	"slices"
)

// Enforcement says what becomes of a no for want of a slot, or of quota.
type Enforcement uint8

// The enforcements. In Shadow all is counted and told, the slot is granted all the same, and
// the count stays true; the zero value enforces.
const (
	Enforce Enforcement = iota
	Shadow
)

// String returns the word of the configuration and the API.
func (e Enforcement) String() string {
	if e == Shadow {
		return "shadow"
	}
	return "enforce"
}

// Orders is what operators took out of force, whatever the configuration says.
type Orders struct {
	All    Order // every pool, the quotas, and every host
	Quotas Order
	Pools  map[string]Order // by name
	Hosts  map[string]Order
}

// Order is one such word. It stands until it is taken back.
type Order struct {
	Since  Time // zero: there is none
	By     string
	Reason string
}

// Given says whether it stands.
func (o Order) Given() bool { return o.Since != 0 }

// Scope says what an order is for.
type Scope string

// The scopes.
const (
	OfAll    Scope = "all"
	OfQuotas Scope = "quotas"
	OfPool   Scope = "pool"
	OfHost   Scope = "host"
)

// Target is what an order is for: all, the quotas, or one pool or host by its name.
type Target struct {
	Scope Scope
	Name  string // of a pool or a host
}

// ShadowsPool says whether a pool is in shadow by an order.
func (o *Orders) ShadowsPool(name string) bool { return o.All.Given() || o.Pools[name].Given() }

// ShadowsQuotas says whether the quotas are.
func (o *Orders) ShadowsQuotas() bool { return o.All.Given() || o.Quotas.Given() }

// ShadowsHost says whether a host is.
func (o *Orders) ShadowsHost(name string) bool { return o.All.Given() || o.Hosts[name].Given() }

// NewOrders returns none.
func NewOrders() Orders { return Orders{Pools: map[string]Order{}, Hosts: map[string]Order{}} }

func (o *Orders) clone() Orders {
	out := *o
	out.Pools, out.Hosts = maps.Clone(o.Pools), maps.Clone(o.Hosts)
	return out
}

// Put notes an order; the zero value takes one back.
func (o *Orders) Put(t Target, order Order) {
	switch t.Scope {
	case OfAll:
		o.All = order
	case OfQuotas:
		o.Quotas = order
	case OfPool:
		put(o.Pools, t.Name, order)
	case OfHost:
		put(o.Hosts, t.Name, order)
	}
}

func put(to map[string]Order, name string, o Order) {
	if o.Given() {
		to[name] = o
		return
	}
	delete(to, name)
}

// Get returns the order for just that.
func (o *Orders) Get(t Target) Order {
	switch t.Scope {
	case OfAll:
		return o.All
	case OfQuotas:
		return o.Quotas
	case OfPool:
		return o.Pools[t.Name]
	case OfHost:
		return o.Hosts[t.Name]
	}
	return Order{}
}

// Targets are those of all orders that stand.
func (o *Orders) Targets() (out []Target) {
	if o.All.Given() {
		out = append(out, Target{Scope: OfAll})
	}
	if o.Quotas.Given() {
		out = append(out, Target{Scope: OfQuotas})
	}
	for _, name := range slices.Sorted(maps.Keys(o.Pools)) {
		out = append(out, Target{OfPool, name})
	}
	for _, name := range slices.Sorted(maps.Keys(o.Hosts)) {
		out = append(out, Target{OfHost, name})
	}
	return out
}

// OrderVerdict is what became of an order.
type OrderVerdict string

// The verdicts.
const (
	Ordered     OrderVerdict = "ordered"
	OrderSame   OrderVerdict = "same"         // it stood, or did not stand, already
	OrderNoPool OrderVerdict = "no_such_pool" // in force
	OrderOfAll  OrderVerdict = "all"          // the order for all stands, and this alone cannot be taken out of it
)

// Shadow takes something out of force until Enforce.
func (k Clerk) Shadow(t Target, by, reason string) OrderVerdict {
	if _, ok := k.books.Limits(t.Name); t.Scope == OfPool && !ok {
		return OrderNoPool
	}
	if k.books.Orders().Get(t).Given() {
		return OrderSame
	}
	k.books.PutOrder(t, Order{Since: k.books.Now(), By: by, Reason: reason})
	return Ordered
}

// Enforce takes an order back, and for all every order: what the configuration says is in
// force again.
func (k Clerk) Enforce(t Target) OrderVerdict {
	orders, back := k.books.Orders(), []Target{t}
	switch {
	case t.Scope == OfAll:
		back = orders.Targets()
	case orders.All.Given():
		return OrderOfAll
	case !orders.Get(t).Given():
		return OrderSame
	}
	for _, t := range back {
		k.books.PutOrder(t, Order{})
	}
	if len(back) == 0 {
		return OrderSame
	}
	return Ordered
}
