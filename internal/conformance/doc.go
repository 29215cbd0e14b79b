// Package conformance shows the contract: every row of it has a test TestConformance/<ID>. It holds tests only.
package conformance
