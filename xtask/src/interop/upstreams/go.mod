module thruway.example/seen

go 1.22
