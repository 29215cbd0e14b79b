// Package sdk simulates workflows and the workers that execute them with one of Temporal's SDKs. A workflow decides by
// its history alone, as those of the SDKs must: a worker replays the history that it is given, and decides the same
// again. It insists on what the SDKs rely on: its commands have become the events that it has foreseen, in their order,
// and nothing is told twice.
package sdk
