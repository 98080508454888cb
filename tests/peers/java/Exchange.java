import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One producer and one consumer exchange COUNT messages, steadily. Says "under way" when a third is sent, and holds
 * the last tenth back until it reads the line "go on"; then a second consumer, which has never asked the name server
 * before, joins the group. Ends with "received COUNT of COUNT".
 *
 * Arguments: NAMESRV TOPIC COUNT
 */
public class Exchange {
    static final Set<String> received = ConcurrentHashMap.newKeySet();

    static DefaultMQPushConsumer consumer(String namesrv, String topic, String instance) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("exchange-consumers");
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000); // ask often, so that the restart is noticed
        consumer.setHeartbeatBrokerInterval(1000); // a 5.x slave serves no consumer before it has heard of it
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                received.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));

        consumer(namesrv, topic, "first");
        DefaultMQProducer producer = new DefaultMQProducer("exchange-producers");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("producer");
        producer.setPollNameServerInterval(1000);
        producer.setSendMsgTimeout(10_000);
        producer.start();

        for (int i = 0; i < count; i++) {
            if (i == count / 3) {
                System.out.println("under way");
            }
            if (i == count - count / 10) {
                System.out.println("held back");
                input.readLine();
                consumer(namesrv, topic, "second");
            }
            Message message = new Message(topic, ("message " + i).getBytes(StandardCharsets.UTF_8));
            SendStatus status = producer.send(message).getSendStatus();
            if (status != SendStatus.SEND_OK) {
                System.out.println("send " + i + ": " + status);
                System.exit(1);
            }
            TimeUnit.MILLISECONDS.sleep(3); // steadily: so that it lasts longer than a restart
        }
        System.out.println("sent " + count);
        while (received.size() < count) {
            TimeUnit.MILLISECONDS.sleep(50);
        }
        System.out.println("received " + received.size() + " of " + count);
        System.exit(0);
    }
}
