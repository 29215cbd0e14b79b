package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	station = regexp.MustCompile(`(?m)^\d+\. ((→|←) )?(?:[^\n]|\n )+`)
	numbers = regexp.MustCompile(`\*\*\d+ packages, \d+ files, \d+ handovers\.\*\*`)
)

// TestWalks checks that the numbers of each walk in docs/design/walks.md follow from its list, and that an arrow stands
// where it enters another package. TestDocumentsNameFiles checks that the functions exist.
func TestWalks(t *testing.T) {
	walks := strings.Split(page(t, "docs/design/walks.md"), "\n## ")[1:]
	if len(walks) < 5 {
		t.Errorf("only %d walks are found", len(walks))
	}
	for _, walk := range walks {
		title, _, _ := strings.Cut(walk, "\n")
		packages, files, handovers := map[string]bool{}, map[string]bool{}, 0
		at := ""
		for _, item := range station.FindAllStringSubmatch(walk, -1) {
			named := goFile.FindAllStringSubmatch(item[0], -1)
			if len(named) == 0 {
				t.Errorf("%s: no function is named: %s", title, item[0])
				continue
			}
			folder := path.Dir(named[0][1])
			if enters := at != "" && folder != at; enters != (item[2] != "") {
				t.Errorf("%s: an arrow is missing, or is one too many: %s", title, item[0])
			}
			packages[folder] = true
			if at = folder; item[2] == "→" {
				handovers++
			}
			for _, n := range named {
				if files[n[1]] = true; path.Dir(n[1]) != folder {
					t.Errorf("%s: a station is in one package: %s", title, item[0])
				}
			}
		}
		want := fmt.Sprintf("**%d packages, %d files, %d handovers.**", len(packages), len(files), handovers)
		if got := numbers.FindString(walk); got != want {
			t.Errorf("%s: the list has %s, and the page says %s", title, want, got)
		}
	}
}
