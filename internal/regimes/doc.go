// Package regimes plays one fleet under each of the ways to admit that the design compares, with
// the same creates at the same times and the same lives: what plimsoll sim regimes prints.
//
// It decides nothing. Hosts are package host's, played by package played; who is asked is package
// table's pick, over words that are never late; a refused one comes back when packages backoff
// and hint say; a quota is pool's rule. None is a host that refuses nothing, as in shadow;
// hindsight is such a fleet under an oracle that has read every life to its end.
//
// A play has one owner; those of one result share only what they read. One seed is one result, on
// every machine and with any number of jobs.
package regimes
