package pawl
