"""The areas of `studies.fuzz`: each makes one input from a random generator, tries it and judges what came of it."""
