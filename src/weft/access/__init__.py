"""Between processes: messages, clients, endpoints; descriptions of jobs, services, teams and sweeps."""
