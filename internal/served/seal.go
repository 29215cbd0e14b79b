package served

// Sealed is implemented by types that embed a [Seal], all of them of this module. An interface that has it can get more
// methods later, since nobody else's type implements it.
type Sealed interface{ sealed() }

// Seal makes the type that embeds it [Sealed].
type Seal struct{}

func (Seal) sealed() {}
