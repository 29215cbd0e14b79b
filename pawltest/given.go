package pawltest

// A test that calls with nothing is told so by a panic of this package: there may be no test to fail.

// checkGiven panics unless a call has the test, and the function, that it needs.
func checkGiven(all bool) {
	if !all {
		panic("pawltest: the test, or its function, is nil")
	}
}

// checkMade panics for an Env that Run has not made.
func (e *Env) checkMade() {
	if e == nil || e.t == nil {
		panic("pawltest: the Env was not made by Run: use the one that the test's function gets")
	}
}

// checkMade panics for a Server that RunServer has not made.
func (s *Server) checkMade() {
	if s == nil || s.t == nil {
		panic("pawltest: the Server was not made by RunServer: use the one that the test's function gets")
	}
}

// checkMade panics for a Fake that FakeStep and the like have not made.
func (f *Fake[In, Out]) checkMade() {
	if f == nil || f.entry == nil {
		panic("pawltest: the Fake was not made by FakeStep, FakeCall or FakeChild")
	}
}
