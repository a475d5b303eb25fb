"""tiersnap's commands, two hosts, a cluster and a store that fails, interleaved request by request; see world."""
