// Package visibility reads the queries with which programs list workflows, and says which workflows they select. It
// knows conditions on the fields that each workflow has, and AND between them. Anything else is refused.
package visibility
