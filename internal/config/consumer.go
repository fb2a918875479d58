package config

import (
	"crypto/subtle"
	"slices"

	"github.com/plimsoll-project/plimsoll/api"
)

// Authenticate finds the consumer of a token by its SHA-256. It looks at every token of
// every consumer whatever it finds, so that the time it takes says nothing about them.
func (f *Fleet) Authenticate(tokenSHA256 [32]byte) (*Consumer, bool) {
	found := -1
	for i := range f.Consumers {
		for _, t := range f.Consumers[i].Tokens {
			found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(t[:], tokenSHA256[:]), i, found)
		}
	}
	if found < 0 {
		return nil, false
	}
	return &f.Consumers[found], true
}

// Has says whether the consumer may act in a role; admin includes every other, and operator
// includes consumer.
func (c *Consumer) Has(role Role) bool {
	if role == RoleSubstrate {
		return slices.Contains(c.Roles, role) || slices.Contains(c.Roles, RoleAdmin)
	}
	return slices.ContainsFunc(c.Roles, func(r Role) bool { return rank(r) >= rank(role) && rank(role) > 0 })
}

// rank orders the roles that include others; any other is zero, which includes none.
func rank(r Role) int {
	return slices.Index([]Role{RoleConsumer, RoleOperator, RoleAdmin}, r) + 1
}

// Serves says whether the consumer may redeem the tickets of an audience; an admin may all.
func (c *Consumer) Serves(audience string) bool {
	return slices.Contains(c.Roles, RoleAdmin) || c.Has(RoleSubstrate) && (slices.Contains(c.Audiences, AnyAudience) || slices.Contains(c.Audiences, audience))
}

// Consumer returns the consumer of a name.
func (f *Fleet) Consumer(name string) (*Consumer, bool) {
	for i := range f.Consumers {
		if f.Consumers[i].Name == name {
			return &f.Consumers[i], true
		}
	}
	return nil, false
}

// AddToken lets whoever has the token of this hash be the consumer.
func (c *Consumer) AddToken(h TokenHash) {
	c.Tokens = append(c.Tokens, h)
	c.sort()
}

// RemoveToken takes a token back.
func (c *Consumer) RemoveToken(h TokenHash) {
	c.Tokens = slices.DeleteFunc(c.Tokens, func(t TokenHash) bool { return t == h })
}

// KeepTokens gives the consumers of whose tokens a file says nothing those that they have in
// force: plimsoll token create and revoke look after them, and no file has to be kept in step.
func (f *Fleet) KeepTokens(inForce *Fleet) {
	for i := range f.Consumers {
		c := &f.Consumers[i]
		if has, ok := inForce.Consumer(c.Name); ok && c.Tokens == nil {
			c.Tokens = slices.Clone(has.Tokens)
		}
	}
}

// Tenant is on whose behalf a request is made. Without a word in the request it is the
// consumer's only tenant, or the one of its own name; it is never one that the consumer
// was not given, or leaving the field out would be a way around a quota.
func (c *Consumer) Tenant(asked string) (string, error) {
	if asked == "" {
		return c.ownTenant()
	}
	if !namePattern.MatchString(asked) {
		return "", api.Refuse(api.InvalidRequest, "tenant: %q is no name; write 1 to 128 of A-Z a-z 0-9 . _ : -", short(asked))
	}
	if !c.mayAskFor(asked) {
		r := api.Refuse(api.Forbidden, "tenant: consumer %s may not ask for %q", c.Name, asked)
		r.Remedy = "ask for a tenant of this consumer's, or add it to the consumer's tenants with plimsoll config apply"
		return "", r
	}
	return asked, nil
}

func (c *Consumer) ownTenant() (string, error) {
	switch {
	case len(c.Tenants) == 1 && c.Tenants[0] != AnyTenant:
		return c.Tenants[0], nil
	case c.mayAskFor(c.Name):
		return c.Name, nil
	}
	return "", api.Refuse(api.InvalidRequest, "tenant: consumer %s has several; name one of them", c.Name)
}

func (c *Consumer) mayAskFor(tenant string) bool {
	return slices.Contains(c.Tenants, AnyTenant) || slices.Contains(c.Tenants, tenant)
}
