// Package main is the app host, an example: apps that sleep until a request comes.
//
// An app is running, hibernated, or in waiting_capacity. There is no fourth state: a 503 of the gate is a
// tempo, and so nothing that the gate says for want of room is ever written down as an error.
//
//	hibernated ──request──▶ waiting_capacity ──admitted, booted──▶ running
//	     ▲                        │ nobody asks any more              │ idle, or its process ended
//	     └────────────────────────┴───────────────────────────────────┘
//
// One goroutine an app (cycle.go) makes every change of its state; requests only say that they want it and
// wait (app.go). So however many requests come for an app that sleeps, it is woken once. The key of its
// admission is its own, and so two lives of this program, one after the other, hold one admission.
//
// An app is a process that listens on the Unix socket that APP_SOCKET names. The agent's driver boots it
// with the ticket, and it outlives this program. To hibernate is to release the admission, which ends the
// process; what an app is to remember it writes into its folder. A platform with snapshots takes one there.
//
// It uses package client and client/boot, and nothing else of Plimsoll.
package main
