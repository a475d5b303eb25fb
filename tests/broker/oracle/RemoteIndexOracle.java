package org.apache.kafka.server.log.remote.metadata.storage;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;

/**
 * What Kafka's own cache finds after each record: RemoteIndexOracle CASES EPOCHS OFFSETS
 *
 * <p>CASES is a file with a line a record: NEW, which begins another partition; SEGMENT id start end
 * epoch:start,...; UPDATE id state. Ids are numbers. For each record but NEW, a line is printed: of each epoch below
 * EPOCHS and each offset below OFFSETS the id that is found, or a dot; of each epoch the highest offset, or a dot; and
 * the ids of all segments. In the cache's package, as its methods are not public from Kafka 4.2 on.
 */
public final class RemoteIndexOracle {
    private static final TopicIdPartition PARTITION =
            new TopicIdPartition(new Uuid(1, 1), new TopicPartition("orders", 3));

    public static void main(String[] args) throws IOException {
        int epochs = Integer.parseInt(args[1]);
        int offsets = Integer.parseInt(args[2]);
        StringBuilder said = new StringBuilder();
        try (BufferedReader cases = Files.newBufferedReader(Path.of(args[0]))) {
            RemoteLogMetadataCache cache = null;
            for (String line = cases.readLine(); line != null; line = cases.readLine()) {
                if (line.equals("NEW")) {
                    cache = new RemoteLogMetadataCache();
                    cache.markInitialized();
                } else {
                    take(cache, line.split(" "));
                    show(cache, epochs, offsets, said);
                }
            }
        }
        PrintStream out = new PrintStream(System.out, false);
        out.print(said);
        out.flush();
    }

    private static void take(RemoteLogMetadataCache cache, String[] words) {
        RemoteLogSegmentId id = new RemoteLogSegmentId(PARTITION, new Uuid(2, Long.parseLong(words[1])));
        try {
            if (words[0].equals("SEGMENT")) {
                cache.addCopyInProgressSegment(segment(id, words));
            } else {
                RemoteLogSegmentState state = RemoteLogSegmentState.valueOf(words[2]);
                cache.updateRemoteLogSegmentMetadata(
                        new RemoteLogSegmentMetadataUpdate(id, 8, Optional.empty(), state, 1));
            }
        } catch (RemoteResourceNotFoundException dropped) {
            // Its consumer task goes on with the next record.
        }
    }

    private static RemoteLogSegmentMetadata segment(RemoteLogSegmentId id, String[] words) {
        Map<Integer, Long> leaderEpochs = new TreeMap<>();
        for (String entry : words[4].split(",")) {
            String[] parts = entry.split(":");
            leaderEpochs.put(Integer.valueOf(parts[0]), Long.valueOf(parts[1]));
        }
        return new RemoteLogSegmentMetadata(
                id, Long.parseLong(words[2]), Long.parseLong(words[3]), 7, 1, 8, 9, leaderEpochs);
    }

    private static void show(
            RemoteLogMetadataCache cache, int epochs, int offsets, StringBuilder said) {
        for (int epoch = 0; epoch < epochs; epoch++) {
            for (int offset = 0; offset < offsets; offset++) {
                Optional<RemoteLogSegmentMetadata> found = cache.remoteLogSegmentMetadata(epoch, offset);
                said.append(
                                found.map(each -> Long.toString(each.remoteLogSegmentId().id().getLeastSignificantBits()))
                                        .orElse("."))
                        .append(' ');
            }
        }
        said.append('|');
        for (int epoch = 0; epoch < epochs; epoch++) {
            said.append(cache.highestOffsetForEpoch(epoch).map(String::valueOf).orElse(".")).append(' ');
        }
        said.append('|');
        cache.listAllRemoteLogSegments()
                .forEachRemaining(
                        each ->
                                said.append(each.remoteLogSegmentId().id().getLeastSignificantBits())
                                        .append(' '));
        said.append('\n');
    }
}
