// Package plugin is pawlvet as a module plugin of golangci-lint. In .custom-gcl.yml:
//
//	version: v2.5.0
//	plugins:
//	  - module: github.com/pawl-dev/pawl
//	    import: github.com/pawl-dev/pawl/cmd/pawlvet/plugin
//	    version: v0.1.0
//
// In .golangci.yml: enable pawlvet, and name it in linters.settings.custom with type: module.
package plugin

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/pawl-dev/pawl/internal/vet"
)

func init() { register.Plugin("pawlvet", open) }

// open makes the plugin. It has no settings.
func open(any) (register.LinterPlugin, error) { return pawlvet{}, nil }

type pawlvet struct{}

func (pawlvet) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{vet.Analyzer}, nil
}

func (pawlvet) GetLoadMode() string { return register.LoadModeTypesInfo }
