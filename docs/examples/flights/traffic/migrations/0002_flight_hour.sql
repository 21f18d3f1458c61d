-- The hour of the day, by which the query "worst" groups; NULL where there is no date.
ALTER TABLE flight ADD COLUMN hour INTEGER AS (CAST(substr(date, 12, 2) AS INTEGER)) VIRTUAL;
CREATE INDEX flight_destination ON flight (destination, delay);
