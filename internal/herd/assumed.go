package herd

// assumed is what every play takes for granted, each a sentence.
func assumed() []string {
	return append(common(),
		"Creates come one by one at random instants (Poisson), and lives are exponential; Erlang's formula holds for lives of any distribution.",
		"An end is seen by a peer as late as its reports are old: heartbeats carry it for the essay's shapes, the next poll for E2B's, which takes off at once what the same replica placed itself.",
	)
}

func burstAssumed() []string {
	return append(common(), "The fleet is empty and the burst alone; what is admitted stays.")
}

func common() []string {
	return []string{
		"Hosts and sandboxes are all alike: a sandbox of 4 GiB is promised a quarter of it, so that memory is a number of slots, and a score by free memory and free cores is one by free slots.",
		"A frame takes 0.5 ms one way; nothing is lost, nobody fails, and a store, where there is one, answers at once. A create comes to each replica with the same chance.",
		"Every host has the last word, the peers' too: it takes nothing beyond its slots, so that a choice by an old view costs questions and refusals.",
		"deltas is the product's own code: packages admission, table and host. Verdicts are pushed when they move, at most every 20 ms; up to 4 further hosts are asked after a denial, and 32 hosts are asked again before a refusal. Who was denied asks the next host after 10 ms, when a slot may have become free, so that ours may refuse a little less than the pool, which answers at once. Its class is one that the host alone records, a boot takes no time, and an end is written at once.",
		"A refusal is wrong if some host had room from 20.5 ms before the create came until it was answered: so long does it take ours at most to say so. Of more than 32 hosts the sweep before a refusal leaves out some, so that room which is fresher than that may be missed; it is counted apart.",
		"heartbeats is the essay's loop over reports that each host sends every 10 s, with a ledger of its own in each replica, whose entries stand until a report has seen them. Its score reads the report alone, as written there. The essay does not say what follows when a host's own gate denies: here up to 4 further hosts are asked, as many as ours.",
		"shared_ledger is the same with one ledger for all replicas, read and written at once and without cost.",
		"best_of_3 is E2B's shape: hosts are polled every 20 s by each replica for itself; of those that fit by that, and by what this replica placed and saw end since, three are drawn and the least loaded is taken. After a denial it draws again without that host, as often as any is left. Its limit on starts at a time is left out, since a start takes no time here.",
	}
}
