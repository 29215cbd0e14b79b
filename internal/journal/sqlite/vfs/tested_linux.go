package vfs

import (
	"runtime/debug"

	sqlite3 "modernc.org/sqlite/lib"
)

// The translated SQLite that this package was tested with. The package knows how that version keeps functions in tables
// of C, which no interface promises. With any other, SQLite's own virtual file system is used, which is right but takes
// a tenth more processor time a run, and 0.07 ms more a commit. Add another version here once the tests of this package
// and those of the failing disk pass with it.
const (
	testedModule  = "modernc.org/sqlite"
	testedRelease = "v1.61.1"
	testedSQLite  = 3_054_001
)

// tested reports whether the program has the SQLite that this package was tested with.
func tested() bool {
	info, _ := debug.ReadBuildInfo()
	return sqlite3.SQLITE_VERSION_NUMBER == testedSQLite && hasTested(info)
}

// hasTested looks among the modules of a program. Test programs, and those of other build systems, do not know their
// modules: for them only SQLite's own version is known.
func hasTested(info *debug.BuildInfo) bool {
	if info == nil {
		return true
	}
	for _, m := range info.Deps {
		if m.Path == testedModule {
			return m.Version == testedRelease && m.Replace == nil
		}
	}
	return true
}
