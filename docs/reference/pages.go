// Package reference embeds the pages of the reference, which pawl help prints.
package reference

import "embed"

// Pages has the pages, as Markdown.
//
//go:embed *.md
var Pages embed.FS
