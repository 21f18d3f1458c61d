CREATE TABLE flight (
	id          INTEGER PRIMARY KEY,
	number      INTEGER UNIQUE, -- in its import; NULL for a flight that comes from none
	date        TEXT NOT NULL,  -- local time of departure, "2001-01-01T00:47:00"; may be empty
	destination TEXT NOT NULL,
	distance    INTEGER NOT NULL,
	delay       INTEGER NOT NULL
) STRICT;
