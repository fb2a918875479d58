-- Slots that admissions of each pool gave back, ever.
SELECT name, freed FROM pools WHERE freed > 0
