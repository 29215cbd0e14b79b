package pawl

// Sessions counts the calls of bodies that the engine knows of.
func (e *Engine) Sessions() int { return e.host.bodies.Sessions() }
