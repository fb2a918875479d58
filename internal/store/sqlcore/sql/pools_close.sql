UPDATE pools SET in_force = false
