package pawl

// Sessions counts the calls of bodies that the engine knows of.
func (e *Engine) Sessions() int {
	e.host.mu.Lock()
	defer e.host.mu.Unlock()
	return len(e.host.sessions)
}
