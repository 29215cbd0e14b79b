-- What callers write within transactions of their own, until an engine has delivered it; see package outbox. A
-- transaction on another database is refused by the constraint: its name is the message that the caller sees.
CREATE TABLE {schema}.outbox (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id         text NOT NULL UNIQUE,
	message    text NOT NULL,
	created_ms bigint NOT NULL,
	failure    text, -- why it can never be delivered; NULL: it waits
	database   text NOT NULL DEFAULT '{database}'
		CONSTRAINT the_transaction_is_not_on_the_database_of_the_engine CHECK (database = '{database}')
);
INSERT INTO {schema}.meta VALUES ('database', '{database}');
