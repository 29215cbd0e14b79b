package main

// The verbs of one noun are methods of one type, which has what every verb has: the streams and the flags of app.
type (
	clusterVerbs  struct{ *app }
	databaseVerbs struct{ *app }
	eventVerbs    struct{ *app }
	flowVerbs     struct{ *app }
	policyVerbs   struct{ *app }
	resumeVerbs   struct{ *app }
	runVerbs      struct{ *app }
	scheduleVerbs struct{ *app }
	serverVerbs   struct{ *app }
	stepVerbs     struct{ *app }
	timeVerbs     struct{ *app }
	tokenVerbs    struct{ *app }
	webhookVerbs  struct{ *app }
	workerVerbs   struct{ *app }
)
