import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogFileUtils;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Kafka's rebuild of the producer state, as UnifiedLog.loadProducersFromRecords does it: KafkaReplay OUT PARTITION-DIR...
 *
 * <p>For each line on standard input the partitions are replayed from the first segment, with a snapshot at each segment
 * boundary and at the log end, and "batches nanoseconds" is printed.
 */
public final class KafkaReplay {
    public static void main(String[] args) throws IOException {
        BufferedReader requests =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (int round = 0; requests.readLine() != null; round++) {
            long started = System.nanoTime();
            long batches = 0;
            for (String partition : Arrays.copyOfRange(args, 1, args.length)) {
                File folder = new File(partition);
                batches += replay(folder, new File(args[0], folder.getName() + "-" + round));
            }
            System.out.println(batches + " " + (System.nanoTime() - started));
            System.out.flush();
        }
    }

    private static long replay(File folder, File out) throws IOException {
        Files.createDirectories(out.toPath());
        ProducerStateManager state =
                new ProducerStateManager(
                        new TopicPartition("perf", 0),
                        out,
                        15 * 60 * 1000,
                        new ProducerStateManagerConfig(Integer.MAX_VALUE, true),
                        Time.SYSTEM);
        File[] segments =
                folder.listFiles((dir, name) -> name.endsWith(LogFileUtils.LOG_FILE_SUFFIX));
        Arrays.sort(segments);
        long batches = 0;
        long end = 0;
        for (File segment : segments) {
            if (segment != segments[0]) {
                state.updateMapEndOffset(LogFileUtils.offsetFromFileName(segment.getName()));
                state.takeSnapshot();
            }
            Map<Long, ProducerAppendInfo> loaded = new HashMap<>();
            List<CompletedTxn> completed = new ArrayList<>();
            try (FileRecords records = FileRecords.open(segment, false)) {
                for (RecordBatch batch : records.batches()) {
                    if (batch.hasProducerId()) {
                        loaded.computeIfAbsent(
                                        batch.producerId(),
                                        id -> state.prepareUpdate(id, AppendOrigin.REPLICATION))
                                .append(batch, Optional.empty())
                                .ifPresent(completed::add);
                    }
                    batches++;
                    end = batch.lastOffset() + 1;
                }
            }
            loaded.values().forEach(state::update);
            completed.forEach(state::completeTxn);
        }
        state.updateMapEndOffset(end);
        state.takeSnapshot();
        return batches;
    }
}
