package control

import (
	"time"

	"github.com/plimsoll-project/plimsoll/registry"
)

// RegisteredHost is a host as the registry has it.
type RegisteredHost = registry.Host

// HostBounds is what a host said of itself.
type HostBounds struct {
	ID     string
	Bounds registry.Bounds
}

// The deeds below are what the audit says of the registry's changes, in the words of the
// command line.

// HostDeed says what SetHostState did.
func HostDeed(c *registry.Change) Deed {
	return Deed{By: c.By, What: "host " + string(c.Deed) + " " + c.Host, Reason: c.Reason}
}

// JoinDeed says what Join did.
func JoinDeed(j *registry.Join, t *registry.Token) Deed {
	return Deed{By: "host " + j.Host, What: "joined at " + j.Endpoint, Reason: "join token " + t.ID + " of " + t.By}
}

// EndpointDeed says that RegisterHost moved a host.
func EndpointDeed(r *registry.Registration) Deed {
	return Deed{By: "host " + r.Host, What: "moved to " + r.Endpoint}
}

// IssueDeed says what IssueJoin did.
func IssueDeed(t *registry.Token, lasts time.Duration) Deed {
	what := "host token create"
	if t.Host != "" {
		what += " --host " + t.Host
	}
	return Deed{By: t.By, What: what + " --for " + lasts.String(), Reason: "join token " + t.ID}
}

// RevokeDeed says what RevokeJoin did.
func RevokeDeed(id, by string) Deed { return Deed{By: by, What: "host token revoke " + id} }
