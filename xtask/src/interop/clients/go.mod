module thruway.example/client

go 1.22
