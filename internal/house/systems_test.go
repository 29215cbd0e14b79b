package house

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestOtherSystems checks the types of every package as they are on the systems that Pawl runs on, and of the tests on
// Windows, which differs most. It finds what their compilers would, and generates no code: a build for each of them
// takes ten times as long, which make nightly does.
func TestOtherSystems(t *testing.T) {
	for _, system := range []string{"linux", "windows", "darwin"} {
		if system == runtime.GOOS {
			continue // this test is compiled for it
		}
		t.Run(system, func(t *testing.T) {
			all, err := packages.Load(&packages.Config{
				Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes |
					packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedFiles | packages.NeedCompiledGoFiles,
				Dir: top(t), Tests: system == "windows", Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
			}, "./...")
			if err != nil {
				t.Fatal(err)
			}
			if len(all) < 50 {
				t.Errorf("only %d packages are found", len(all))
			}
			for _, p := range all {
				for _, wrong := range p.Errors {
					t.Errorf("%s: %v", p.PkgPath, wrong)
				}
			}
		})
	}
}
