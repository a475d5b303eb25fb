import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import kafka.coordinator.transaction.TransactionConfig;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionMarkerChannelManager;
import kafka.coordinator.transaction.TransactionMetadata;
import kafka.coordinator.transaction.TransactionStateManager;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.util.KafkaScheduler;
import scala.Option;
import scala.Tuple2;
import scala.util.Either;

/**
 * What Kafka's coordinator does with a transactional id: InitOracle CASES.
 *
 * <p>A line of CASES is {@code number|state|id epoch last previous pending|what}, where what is {@code init -} for a new
 * instance, {@code init ID EPOCH}, or {@code end COMMIT|ABORT VERSION} for the record that decides a transaction and
 * the one that completes it. New producer ids are 11. The answer is {@code number|error|record}, a record being
 * {@code state id epoch last previous next}; {@code fence} stands in front of one that fences.
 */
public final class InitOracle {
    private static final long NEW_ID = 11;

    public static void main(String[] args) throws Exception {
        TransactionCoordinator coordinator = coordinator();
        Method init =
                Arrays.stream(TransactionCoordinator.class.getDeclaredMethods())
                        .filter(each -> each.getName().equals("prepareInitProducerIdTransit"))
                        .findFirst()
                        .orElseThrow();
        init.setAccessible(true);
        for (String line : lines(args[0])) {
            String[] parts = line.split("\\|", -1);
            TransactionMetadata metadata = metadata(parts[1], parts[2].split(" "));
            String[] words = parts[3].split(" ");
            System.out.println(
                    parts[0]
                            + "|"
                            + (words[0].equals("init")
                                    ? initialised(coordinator, init, metadata, words)
                                    : ended(metadata, words)));
        }
    }

    private static Iterable<String> lines(String path) throws IOException {
        return Files.readAllLines(Path.of(path));
    }

    private static TransactionCoordinator coordinator() {
        ProducerIdManager ids = () -> NEW_ID;
        return new TransactionCoordinator(
                config(),
                new KafkaScheduler(1),
                () -> ids,
                (TransactionStateManager) null,
                (TransactionMarkerChannelManager) null,
                Time.SYSTEM,
                new LogContext());
    }

    private static TransactionConfig config() {
        return new TransactionConfig(
                604_800_000, 900_000, 50, (short) 3, 104_857_600, 5_242_880, 2, 10_000, 3_600_000, false, 30_000);
    }

    private static TransactionMetadata metadata(String state, String[] numbers) {
        TransactionMetadata metadata =
                new TransactionMetadata(
                        "id",
                        Long.parseLong(numbers[0]),
                        Long.parseLong(numbers[3]),
                        -1,
                        Short.parseShort(numbers[1]),
                        Short.parseShort(numbers[2]),
                        60_000,
                        state(state),
                        new scala.collection.mutable.HashSet<>(),
                        0,
                        0,
                        TransactionVersion.TV_0);
        if (numbers[4].equals("pending")) {
            metadata.pendingState_$eq(Option.apply(TransactionState.EMPTY));
        }
        return metadata;
    }

    private static TransactionState state(String name) {
        return Arrays.stream(TransactionState.values())
                .filter(each -> each.stateName().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static String initialised(
            TransactionCoordinator coordinator, Method init, TransactionMetadata metadata, String[] words)
            throws IllegalAccessException {
        Option<ProducerIdAndEpoch> supplied =
                words[1].equals("-")
                        ? Option.empty()
                        : Option.apply(
                                new ProducerIdAndEpoch(Long.parseLong(words[1]), Short.parseShort(words[2])));
        try {
            Either<?, ?> answer = (Either<?, ?>) init.invoke(coordinator, "id", 60_000, 0, metadata, supplied);
            if (answer.isLeft()) {
                return ((Errors) answer.left().toOption().get()).name() + "|";
            }
            TxnTransitMetadata record =
                    (TxnTransitMetadata) ((Tuple2<?, ?>) answer.toOption().get())._2();
            boolean isFence = record.txnState() == TransactionState.PREPARE_EPOCH_FENCE;
            return "NONE|" + (isFence ? "fence " : "") + text(record);
        } catch (InvocationTargetException error) {
            return Errors.forException(error.getCause()).name() + "|";
        }
    }

    private static String ended(TransactionMetadata metadata, String[] words) {
        boolean commits = words[1].equals("COMMIT");
        TransactionVersion version = TransactionVersion.fromFeatureLevel(Short.parseShort(words[2]));
        boolean isExhausted = metadata.producerEpoch() >= Short.MAX_VALUE - 1;
        TxnTransitMetadata prepared =
                metadata.prepareAbortOrCommit(
                        commits ? TransactionState.PREPARE_COMMIT : TransactionState.PREPARE_ABORT,
                        version,
                        words[2].equals("2") && isExhausted ? NEW_ID : -1,
                        1,
                        false);
        metadata.completeTransitionTo(prepared);
        TxnTransitMetadata completed = metadata.prepareComplete(2);
        return "NONE|" + text(prepared) + "; " + text(completed);
    }

    private static String text(TxnTransitMetadata record) {
        return record.txnState().stateName()
                + " "
                + record.producerId()
                + " "
                + record.producerEpoch()
                + " "
                + record.lastProducerEpoch()
                + " "
                + record.prevProducerId()
                + " "
                + record.nextProducerId();
    }
}
