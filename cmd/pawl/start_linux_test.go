package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// What a server has used of the program to start leaves memory, and the program goes on.
func TestForgetStart(t *testing.T) {
	before := mapped(t)
	forgetStart()
	if after := mapped(t); after >= before/2 {
		t.Errorf("%d KiB of files are in memory, before %d", after, before)
	}
}

// mapped returns how many KiB of files this process has in memory.
func mapped(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Skip("this system does not say how much of files is in memory")
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n
}
