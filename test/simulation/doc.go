// Package simulation runs whole replicas, made of the product's own code, over a simulated Postgres and a simulated
// Temporal, and lets everything fail that can. One seed decides a run: when a statement runs, when it commits, when its
// answer arrives or is lost, what fails, and how much time passes. The same seed gives the same run on every machine:
// see package repeatable.
package simulation
