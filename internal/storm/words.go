package storm

import "fmt"

// assumed says what was taken for granted.
func assumed(o *Options) []string {
	return []string{
		fmt.Sprintf("Before the storm callers come at %.0f %% of what a full pool frees, until the pool is as full as that makes it and the rate is measured; after the storm nobody comes.", 100*ordinary),
		"Gaps between callers and lives of sandboxes are exponential; every kind of client meets the same callers with the same lives.",
		"What is waited for is a slot of one pool without shares or quotas, booted by a substrate: no host has to say yes as well, and a slot is free in the instant in which its sandbox ends.",
		"A call takes no time and none is lost; replicas hear at once of what is freed, and measure it every 5 s, as they do.",
		"Clients in refuse mode are answered by the same server: its appointment is for that caller, behind those whom the same replica refused before.",
		"fixed: asks every second. exponential: waits 0.25 s, doubled up to 8 s, without jitter. Neither heeds what it is told.",
		fmt.Sprintf("essay_sdk: the essay's create_with_backoff as it is, which sleeps exactly Retry-After, in whole seconds rounded up; with its own deadline of %.0f s, and with that of the others.", essayPatience.Seconds()),
		"retry_after: comes back to the millisecond when it was told to, without jitter, and gives up where that is beyond its patience.",
		"sdk: ours in queue mode, as it waits where nobody watches: it comes back at poll_after_ms and holds on for up to 30 s, as often as needed. A call is one attempt, a long poll too; refused a place, it goes by package backoff.",
	}
}
