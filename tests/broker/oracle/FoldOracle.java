import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Arrays;
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
 * The producer state of partitions, folded by Kafka's own classes: FoldOracle OUT PARTITION-DIR...
 *
 * <p>Every batch is appended as a replica appends it, one by one as on a live broker, from the first segment there is
 * and without expiry. At every segment boundary and at the log end the state manager takes its own snapshot, in
 * OUT/name-of-partition-dir. A batch that Kafka refuses ends the program with Kafka's exception.
 */
public final class FoldOracle {
    private static final int FIFTEEN_MINUTES = 15 * 60 * 1000;

    public static void main(String[] args) throws IOException {
        File out = new File(args[0]);
        for (String partition : Arrays.copyOfRange(args, 1, args.length)) {
            File folder = new File(partition);
            fold(folder, new File(out, folder.getName()));
        }
    }

    private static void fold(File folder, File out) throws IOException {
        Files.createDirectories(out.toPath());
        ProducerStateManager state =
                new ProducerStateManager(
                        partitionOf(folder.getName()),
                        out,
                        FIFTEEN_MINUTES,
                        new ProducerStateManagerConfig(Integer.MAX_VALUE, true),
                        Time.SYSTEM);
        File[] segments =
                folder.listFiles((dir, name) -> name.endsWith(LogFileUtils.LOG_FILE_SUFFIX));
        Arrays.sort(segments);
        long end = 0;
        for (File segment : segments) {
            long base = LogFileUtils.offsetFromFileName(segment.getName());
            if (segment != segments[0]) {
                snapshot(state, base);
            }
            end = Math.max(base, append(segment, state));
        }
        snapshot(state, end);
    }

    /** Folds one segment and returns the offset behind its last batch, 0 without one. */
    private static long append(File segment, ProducerStateManager state) throws IOException {
        long next = 0;
        try (FileRecords records = FileRecords.open(segment, false)) {
            for (RecordBatch batch : records.batches()) {
                if (batch.hasProducerId()) {
                    ProducerAppendInfo append =
                            state.prepareUpdate(batch.producerId(), AppendOrigin.REPLICATION);
                    Optional<CompletedTxn> completed = append.append(batch, Optional.empty());
                    state.update(append);
                    completed.ifPresent(state::completeTxn);
                }
                next = batch.nextOffset();
            }
        }
        return next;
    }

    private static void snapshot(ProducerStateManager state, long offset) throws IOException {
        state.updateMapEndOffset(offset);
        state.takeSnapshot();
    }

    private static TopicPartition partitionOf(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }
}
