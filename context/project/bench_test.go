package project_test

import (
	"fmt"
	"testing"

	chatctx "sightline/context"
	"sightline/context/project"
)

// thousand is a call of 1,000 items without images: people who talk, a tool now and then, a handoff, a summary.
func thousand() chatctx.Items {
	items := chatctx.Items{system("s", "You are a support agent. Be brief and kind.")}
	for i := 0; len(items) < 1000; i++ {
		id := fmt.Sprintf("7c1f2a90-5b1e-4c8f-9d3a-%012d", i)
		switch i % 10 {
		case 3:
			items = append(items, &chatctx.FunctionCall{ID: id, CallID: "call_" + id, Name: "lookup_order", Arguments: `{"order_id": "456", "verbose": true}`})
		case 4:
			items = append(items, &chatctx.FunctionCallOutput{ID: id, CallID: "call_" + fmt.Sprintf("7c1f2a90-5b1e-4c8f-9d3a-%012d", i-1), Name: "lookup_order", Output: `{"status": "shipped", "eta": "Tuesday"}`})
		case 5, 7, 9, 1:
			items = append(items, assistant(id, "Your order was shipped on Monday and should arrive on Tuesday afternoon."))
		default:
			items = append(items, user(id, "Could you tell me where my order number four five six is, please?"))
		}
	}
	return items
}

// TestProjectingIsCheap guards the figure of a millisecond for 1,000 items, which depends on the machine, by what makes it: few
// allocations, none of them for the history as a whole more than once.
func TestProjectingIsCheap(t *testing.T) {
	items := thousand()
	for _, p := range projections() {
		if got := testing.AllocsPerRun(5, func() { p.make(items, project.Options{}) }); got > 6*1000 {
			t.Errorf("%s: %.0f allocations for 1,000 items", p.format, got)
		}
	}
}

func BenchmarkProject(b *testing.B) {
	items := thousand()
	for _, p := range projections() {
		if p.format == project.FormatOpenAIRealtime {
			p.make = func(i chatctx.Items, o project.Options) (any, []project.Loss) { return project.OpenAIRealtime(i, o) } // without Events
		}
		b.Run(string(p.format), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.make(items, project.Options{})
			}
		})
	}
	b.Run("text", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			project.Text(items, project.Options{})
		}
	})
	b.Run("seed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			project.Seed(items, project.SeedOptions{})
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	items := thousand()
	for _, p := range projections() {
		out, _ := p.make(items, project.Options{})
		data := marshal(b, out)
		b.Run(string(p.format), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				project.Validate(p.format, data)
			}
		})
	}
}
