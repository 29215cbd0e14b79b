// Package tasks gives the workflow tasks of Temporal's runs to the workers that ask for them, and takes their answers.
//
// A workflow task is a lease that is written when it ends. To give one out writes nothing; its answer is one entry of
// the run. So a task that nobody answers leaves no trace but its timeout, and after a crash it is given out again. An
// answer counts if it follows as many answers as the run has, and if its worker knew all that anybody was shown.
//
// For an engine it is the bodies of the kind: the loop says that there are news, and the entries say which. They are
// read once they are durable, so no worker acts on what may vanish.
package tasks
