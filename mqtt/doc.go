// Package mqtt carries bytes between this process and an MQTT 3.1.1 broker. It
// owns the connections, one Publisher and one Subscriber with a client id each,
// the names of the topics, and the embedded broker.
//
// What it keeps:
//
//   - A row of the Queue is confirmed only after the PUBACK that the connection
//     which sent it received for it. After every connect the queue is sent anew
//     from its first pending row, in row order: a subscriber may see repeats,
//     but never a row before an earlier one that it has not seen.
//   - A message received is acknowledged only when its handler says so. What is
//     not acknowledged when a connection ends comes again from the broker.
//   - A slow handler, disk or peer never stops the keepalive of a connection,
//     and a dead peer never holds anybody for longer than the timeouts of
//     Options.
//
// Each connection is a new paho client that lives as long as its socket. paho's
// own reconnect stays off: with it a publish token completes without error when
// the message was merely sent again (eclipse-paho/paho.mqtt.golang#563).
//
// What it does not do: it knows no event and looks into no payload; it stores
// nothing (the Queue and the broker do); it never drops a row, however often its
// publishing fails. MQTT 5 and QoS 2 are not used.
package mqtt
