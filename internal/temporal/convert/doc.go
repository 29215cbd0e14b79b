// Package convert makes Pawl's values of the messages of Temporal's protocol, and the other way round: failures,
// payloads, and the options of activities and workflows. What the options mean is in dialect/temporal/temporalform.
package convert
