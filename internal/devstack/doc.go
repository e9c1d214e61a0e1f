// Package devstack runs a real PostgreSQL and a real Redis, from the programs
// installed on this machine, for `gateway dev` and for the tests, and for these a
// PgBouncer, Sentinels and etcd.
//
// Servers listen on Unix sockets in a temporary directory (what has to be reached
// by others of its kind, on a port of 127.0.0.1), belong to the
// process that started them, and end with it: in order through Stop, and on
// Linux also when that process is killed. What a killed process leaves on disk
// is removed by the next start.
//
// Nothing here is for production. There is no password: whoever can enter the
// socket's directory (the user who started the servers, and root) is superuser.
// A server without a DataDir does not survive a crash of the machine. Where
// there is no parent-death signal (anything but Linux), servers outlive a
// parent that is killed.
package devstack
