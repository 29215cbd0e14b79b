package pawlflow_test

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/flow"
	_ "github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawlflow"
)

func ExampleDefine() {
	doc, err := flow.Parse("greet.yaml", []byte(`
pawl: 1
name: greet
steps:
  - name: translate
    task: {queue: words, type: Translate, input: "${{ input.word }}"}
    retry: "exponential(5, 1s, max=30s)"
    timeout: {startToClose: 10s, scheduleToClose: 5m}
  - {name: settle, needs: [translate], sleep: 10ms}
output: "${{ steps.translate.output }}, ${{ input.who }}"
`))
	if err != nil {
		fmt.Println(err) // each error with its line and column
		return
	}
	type order struct {
		Word string `json:"word"`
		Who  string `json:"who"`
	}
	greet := pawlflow.Define[order, string](doc)
	eng, err := pawl.Open(context.Background(), pawl.Config{Database: "memory:", Workflows: []pawl.Definition{greet}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = eng.Close() }()
	translate := pawl.Handle("Translate", func(_ context.Context, word string) (string, error) {
		return map[string]string{"hello": "bonjour"}[word], nil
	})
	if err := eng.Serve("words", 4, translate); err != nil {
		fmt.Println(err)
	}
	run, _ := greet.Start(context.Background(), eng, "", order{"hello", "ann"})
	fmt.Println(run.Result(context.Background()))
	// Output: bonjour, ann <nil>
}
