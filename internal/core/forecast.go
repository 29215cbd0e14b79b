package core

// maxForecast is how many entries a forecast makes at most.
const maxForecast = 10_000

// Forecast says what a run would come to if nobody did anything, and each attempt of its open steps did as act says.
// Retry delays and deadlines are those that the run will have: jitter is no chance. What the workflow would begin then
// is left out, since only its steps know what they return.
//
// in is an operation that comes first; nil: none does. The run is changed. told gets the entries that the run would
// have, one after the other. most is how many attempts of a step are forecast. If the operation is refused, the error
// is the one that it would get.
func Forecast(r *Run, in Input, act Act, most int, now Time, told func(Entry)) error {
	f := &forecast{act: act, last: make([]int, len(r.Steps))}
	for i := range r.Steps {
		f.last[i] = r.Steps[i].Attempt + most
	}
	def, decider := *r.def, r.def.NewDecider
	def.NewDecider = func(run *Run) Decider { return onlooker{decider(run)} }
	p := &player{run: r, def: &def, now: max(now, r.last), act: f.of, told: told}
	p.until = p.now.Add(countable)
	p.run.Attach(&def)
	p.run.forgetDecider()
	if in != nil {
		if err := p.put(in, p.now); err != nil {
			return err
		}
	}
	def.Elsewhere = false // the forecast shows what its program would do
	for n := 0; n < maxForecast && f.interesting(r); n++ {
		if more, err := p.next(); err != nil || !more {
			return err
		}
	}
	return nil
}

// forecast has what the attempts do, and after which attempt of each step it ends.
type forecast struct {
	act  Act
	last []int
}

func (f *forecast) of(s *Step) *Act {
	if int(s.ID) >= len(f.last) || s.Attempt > f.last[s.ID] {
		return nil
	}
	return &f.act
}

// interesting reports whether a step of the run is open whose attempts are forecast.
func (f *forecast) interesting(r *Run) bool {
	if r.Phase.Closed() || r.PausedAt != 0 {
		return false
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Spec.Kind != KindTask || s.Phase.Closed() || f.of(s) == nil {
			continue
		}
		if s.Phase != StepBackingOff || s.Attempt < f.last[s.ID] {
			return true
		}
	}
	return false
}

// onlooker decides nothing.
type onlooker struct{ Decider }

// Decide implements Decider.
func (onlooker) Decide(*Run, []StepID, Time) []Command { return nil }
